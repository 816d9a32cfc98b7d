"""The thorough tests in parts of about the same length, for those who cannot run all at once.

A test with the mark `thorough` of its own takes seconds or minutes: in the order of their names, the first goes to part
1, the next to part 2, and so on, so that the tests of a long file are spread over all parts. The thorough points of
`sampled` tests take a moment each but share what their file compiles: all points of a file go to one part, the file
with the most points first, each to the part with the fewest points so far. Nothing is measured or stored: the parts
depend on the names of the tests alone.
"""


def thorough_parts(long_tests, sampled_points, parts):
    """Which part each thorough test belongs to, from 1 to `parts`.

    Args:
        long_tests: iterable of str, the names of the tests that are thorough themselves.
        sampled_points: iterable of str, the names of the thorough points of sampled tests: "file::test[point]".
        parts: int > 0.

    Returns:
        {name: int}.
    """
    part_of = {name: 1 + index % parts for index, name in enumerate(sorted(long_tests))}
    files = {}
    for name in sampled_points:
        files.setdefault(name.partition("::")[0], []).append(name)
    points = [0] * parts
    for _, names in sorted(files.items(), key=lambda file: (-len(file[1]), file[0])):
        part = points.index(min(points))
        points[part] += len(names)
        part_of |= dict.fromkeys(names, part + 1)
    return part_of


def chosen_part(text):
    """The numbers K and N of a text "K/N". ValueError if it is no such text, or K is not from 1 to N."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(f"a part K/N has K from 1 to N. Received: {text}")
    return part, parts
