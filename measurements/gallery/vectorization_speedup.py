"""All distances between points, in five ways

Points with 16 coordinates: 8 of them, 32, and 64.
One repetition computes the distance of every point to every other. On CUDA,
the ways differ in how often they launch something.
"""

import torch

EXACT = "donot_use_mm_for_euclid_dist"


def pair_by_pair(points):
    """Return the distances, one call after the other."""
    distances = torch.empty(len(points), len(points), device=points.device)
    for i in range(len(points)):
        for j in range(len(points)):
            distances[i, j] = (points[i] - points[j]).square().sum().sqrt()
    return distances


def row_by_row(points):
    """Return the distances, a row at a time."""
    rows = [(points - point).square().sum(dim=1).sqrt() for point in points]
    return torch.stack(rows)


def all_at_once(points):
    """Return the distances by broadcasting."""
    differences = points[:, None] - points[None, :]
    return differences.square().sum(dim=2).sqrt()


def cases(device):
    """Return what is timed, by name; the first of a size is the base."""
    ways = {
        "pair by pair": pair_by_pair,
        "row by row": row_by_row,
        "all at once": all_at_once,
        "torch.cdist": lambda points: torch.cdist(points, points),
        "cdist, exact": lambda points: torch.cdist(points, points, 2.0, EXACT),
    }

    def case(way, size):
        points = torch.randn(size, 16, device=device)
        return lambda: way(points)

    return {
        f"{size} points: {name}": case(way, size)
        for size in (8, 32, 64)
        for name, way in ways.items()
    }
