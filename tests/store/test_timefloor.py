from store.base.timefloor import Boot, TimeFloor, floor_after, reset

BOOT, LATER, OTHER = Boot("one", 100.0), Boot("one", 160.0), Boot("two", 5.0)


def test_it_goes_on_with_the_boot_clock_and_starts_from_what_is_kept():
    """rules A16, A17; threats D-22"""
    floor = floor_after(None, 1000, None, BOOT)
    assert floor.at(BOOT) == 1000
    assert floor.at(LATER) == 1060
    assert floor.at(OTHER) == 1000


def test_only_a_later_issued_at_raises_it():
    """threats D-21, V10"""
    floor = floor_after(None, 1000, None, BOOT)
    assert floor_after(floor, 900, None, LATER).time == 1060
    assert floor_after(floor, 2000, None, LATER).time == 2000


def test_never_beyond_the_bundles_end_and_never_back():
    """rules A16; threats D-21"""
    floor = floor_after(None, 1000, 5000, BOOT)
    assert floor_after(floor, 9000, 5000, BOOT).time == 5000
    assert floor_after(floor, 1000, 500, LATER).time == 1000


def test_a_bundle_of_a_higher_epoch_sets_it_back():
    """rules A16"""
    wrong = floor_after(None, 9_000_000, None, BOOT)
    right = reset(1000, 2, LATER)
    assert right.time == 1000
    assert right.order > wrong.order


def test_a_boot_clock_that_goes_back_does_not_lower_it():
    assert TimeFloor(1, 1000, "one", 100.0).at(Boot("one", 50.0)) == 1000
