"""Journeys are begun first, and what shares something stays together."""

from tests import order
from tests.citations import ROOT

APART, TOGETHER = "tests/journeys/test_probation.py", "tests/journeys/test_days.py"
HOUSE = "tests/test_order.py"
FEW, MANY = "tests/agent/test_few.py", "tests/wire/test_many.py"


def in_order(*node_ids):
    return [node_ids[place] for place in order.sequence(node_ids)]


def test_journeys_are_first_then_what_is_long_then_the_files_with_the_most_tests():
    few, many, journey = [f"{FEW}::a"], [f"{MANY}::b", f"{MANY}::a"], [f"{TOGETHER}::b", f"{TOGETHER}::a"]
    longest, long = [f"{order.LONG[0]}::a"], [f"{order.LONG[1]}::a"]
    assert in_order(*few, *many, *long, *longest, *journey) == [*journey, *longest, *long, *many, *few]


def test_of_four_workers_three_take_journeys_first_and_none_goes_without_work():
    long = [f"{order.LONG_JOURNEYS[1]}::a", order.LONG_JOURNEYS[0]]
    short = [f"{APART}::a", TOGETHER]
    waiting = [*long, *short, FEW, MANY]
    assert [order.next_unit(waiting, worker) for worker in range(8)] == [FEW, long[0], short[0], long[0]] * 2
    assert [order.next_unit([*long, FEW], worker) for worker in range(4)] == [FEW, long[0], long[0], long[0]]
    assert [order.next_unit([*short, FEW], worker) for worker in range(4)] == [FEW, short[0], short[0], short[0]]
    assert [order.next_unit(short, worker) for worker in range(4)] == [short[0]] * 4
    assert [order.next_unit([FEW, MANY], worker) for worker in range(4)] == [FEW] * 4


def test_each_worker_begins_elsewhere_and_comes_to_the_same_order():
    files = [f"tests/agent/test_{letter}.py" for letter in "abcde"]
    begun = [order.begun_elsewhere(files, worker, 4) for worker in range(4)]
    assert [found[0] for found in begun] == [files[0], files[1], files[2], files[3]]
    assert {tuple(in_order(*(f"{file}::{name}" for file in found for name in "yx"))) for found in begun} == {
        tuple(f"{file}::{name}" for file in files for name in "yx")
    }


def test_what_is_long_is_there():
    assert [file for file in (*order.LONG, *order.LONG_JOURNEYS, *order.S3) if not (ROOT / file).is_file()] == []


def test_a_file_keeps_its_own_order():
    """xdist puts together what is of one unit."""
    found = in_order(f"{FEW}::b", f"{MANY}::d", f"{FEW}::a", f"{MANY}::c")
    assert [each for each in found if each.startswith(FEW)] == [f"{FEW}::b", f"{FEW}::a"]
    assert [each for each in found if each.startswith(MANY)] == [f"{MANY}::d", f"{MANY}::c"]


def test_tests_of_a_journey_go_apart_where_they_share_nothing():
    assert order.unit(f"{APART}::a") != order.unit(f"{APART}::b")
    assert order.unit(f"{TOGETHER}::a") == order.unit(f"{TOGETHER}::b") == TOGETHER


def test_who_asks_one_server_is_one_after_the_other():
    asking = [f"{file}::a" for file in order.S3]
    assert {order.unit(each) for each in asking} == {order.S3[0]}
    found = in_order(f"{MANY}::a", *asking, f"{order.LONG[0]}::a")
    assert found == [f"{order.LONG[0]}::a", *sorted(asking), f"{MANY}::a"]


def test_the_house_s_files_are_one_after_the_journeys():
    house = [f"{HOUSE}::a", f"{HOUSE.replace('order', 'style')}::a"]
    assert {order.unit(each) for each in house} == {order.HOUSE}
    assert in_order(f"{order.LONG[0]}::a", *house, f"{TOGETHER}::a") == [
        f"{TOGETHER}::a",
        *house,
        f"{order.LONG[0]}::a",
    ]


def test_a_file_of_units_is_one():
    assert order.unit(f"{FEW}::test[a::b]") == FEW
