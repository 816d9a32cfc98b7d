"""Music in four voices: text files, MIDI files, simple rules -> windows for a language model."""
