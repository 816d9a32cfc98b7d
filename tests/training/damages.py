"""What may happen to a file of a checkpoint on a disk."""

import os


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def empty(path):
    os.truncate(path, 0)


def zero(path):
    path.write_bytes(bytes(path.stat().st_size))


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 16
    path.write_bytes(content)


def grow(path):
    path.write_bytes(path.read_bytes() + b"\n{}")


def delete(path):
    path.unlink()


def take_from_the_oldest(path):
    oldest = min(path.parent.parent.glob("step-*"))
    path.write_bytes((oldest / path.name).read_bytes())


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


DAMAGES = [truncate, empty, zero, flip_a_bit, grow, delete, take_from_the_oldest, replace_by_folder]
