"""The training loop and what it needs: losses, schedules, checkpoints, devices."""
