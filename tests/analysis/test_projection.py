import numpy as np

from hardneg.analysis.projection import Neighbourhood, project


def around(query, positives, negatives):
    return Neighbourhood(*(np.asarray(part, np.float32) for part in (query, positives, negatives)))


def test_a_fixed_document_stays_where_it_is_and_the_query_moves_to_its_positive():
    draw = np.random.default_rng(0)
    negatives = draw.normal(0, 0.1, (20, 5)) + np.array([3, 0, 0, 0, 0])
    positives = draw.normal(0, 0.1, (2, 5)) - np.array([3, 0, 0, 0, 0])
    before, after = project(
        around(negatives[0] + 0.01, positives, negatives), around(positives[0] + 0.01, positives, negatives), 1
    )
    assert (before.positives == after.positives).all() and (before.negatives == after.negatives).all()
    assert before.query.shape == (2,) and before.positives.shape == (2, 2) and before.negatives.shape == (20, 2)
    far, near = (np.linalg.norm(side.query - side.positives.mean(0)) for side in (before, after))
    assert near < far


def test_the_seed_decides_and_few_points_are_taken_as_they_are():
    draw = np.random.default_rng(0)
    sides = [around(draw.normal(size=4), draw.normal(size=(1, 4)), draw.normal(size=(6, 4))) for _ in range(2)]
    first, second = project(*sides, seed=3), project(*sides, seed=3)
    assert (first[1].negatives == second[1].negatives).all()
    tiny = around([1, 2, 3], [[4, 5, 6]], np.empty((0, 3)))
    assert project(tiny, tiny, 0)[0].positives.tolist() == [[4, 5]]
