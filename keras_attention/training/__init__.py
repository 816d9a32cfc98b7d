"""The training loop, losses, learning rate schedules, checkpoints and devices."""
