"""What happens to files on their way: flipped bits and lost ends."""

import random

FLIPS, CUTS = 1_000, 50


def damages(folder, flips=FLIPS, cuts=CUTS, seed=0):
    """Damages one file of an entry at a time and mends it again.

    Args:
        folder: Path of an entry.
        flips, cuts: int, how many bits are flipped and how many files are cut.
        seed: int.

    Yields:
        str, the name of the file that is damaged now: drawn at random, and then the place in it.
    """
    draw = random.Random(seed)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for number in range(flips + cuts):
        path = draw.choice(files)
        sound = path.read_bytes()
        damaged = bytearray(sound)
        place = draw.randrange(len(sound))
        if number < flips:
            damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged if number < flips else sound[:place])
        yield path.relative_to(folder).as_posix()
        path.write_bytes(sound)
