"""The checker of the copy, on histories that are sound and on ones that were doctored as a faulty broker would."""

from __future__ import annotations

import pytest

from tests.eos.history import Copy, History, Violation, input_text, transform

PER_PARTITION = 6


def sound() -> History:
    """Two partitions; transaction n holds inputs 2n and 2n+1 of both."""
    copies: list[list[Copy]] = [[], []]
    for number in range(PER_PARTITION):
        for partition in (0, 1):
            part = 2 * (number % 2) + partition
            copies[partition].append(
                Copy(transform(input_text(partition, number)), f"t{number // 2}", part, parts=4, is_meant=True)
            )
    return History([PER_PARTITION] * 2, copies, [PER_PARTITION] * 2, {"t0": True, "t1": True, "t2": True, "x": False})


def test_a_sound_history_passes() -> None:
    sound().check(is_complete=True)


def test_a_copy_survives_its_encoding() -> None:
    copy = sound().copies[1][3]
    assert Copy.decode(copy.encode()) == copy


def test_a_lost_abort_marker_is_found() -> None:
    """The next commit of the producer commits what it had aborted: the attempt is read before its repetition."""
    history = sound()
    attempt = [copy._replace(transaction="x", is_meant=False) for copy in history.copies[0][2:4]]
    history.copies[0][2:2] = attempt
    with pytest.raises(Violation, match="record of the aborted x was read"):
        history.check()


def test_a_record_of_a_transaction_that_had_to_be_aborted_is_found() -> None:
    history = sound()
    history.ended["t1"] = False
    with pytest.raises(Violation, match="record of the aborted t1 was read"):
        history.check()


def test_a_stale_epoch_that_was_accepted_is_found() -> None:
    """Who was fenced committed the same inputs as its successor."""
    history = sound()
    for copies in history.copies:
        copies[4:4] = [copy._replace(transaction="zombie") for copy in copies[2:4]]
    with pytest.raises(Violation, match="0:2 was copied twice, at 2 and 4"):
        history.check()


def test_a_position_that_was_committed_outside_of_the_transaction_is_found() -> None:
    """The transaction was aborted, its positions were not."""
    history = sound()
    for copies in history.copies:
        del copies[4:]
    del history.ended["t2"]
    with pytest.raises(Violation, match="position 6 is committed, with 4 copies"):
        history.check()


def test_inputs_that_were_passed_over_after_such_a_position_are_found() -> None:
    history = sound()
    for copies in history.copies:
        del copies[2:4]
    with pytest.raises(Violation, match="input 2 is missing; 0:4 stands there"):
        history.check()


def test_a_position_that_was_lost_is_found() -> None:
    history = sound()
    history.positions[1] = 4
    with pytest.raises(Violation, match="partition 1: position 4 is committed, with 6 copies"):
        history.check()


def test_a_torn_transaction_is_found() -> None:
    history = sound()
    del history.copies[1][4:]
    history.positions[1] = 4
    with pytest.raises(Violation, match="t2 is torn: 2 of its 4 parts"):
        history.check()


def test_copies_out_of_order_are_found() -> None:
    history = sound()
    history.copies[0][2:4] = reversed(history.copies[0][2:4])
    with pytest.raises(Violation, match="input 2 is out of order"):
        history.check()


def test_a_commit_that_was_answered_and_lost_is_found() -> None:
    history = sound()
    history.ended["t3"] = True
    with pytest.raises(Violation, match="t3 was lost after its commit was answered"):
        history.check()


def test_an_end_that_comes_too_early_is_found() -> None:
    history = sound()
    history.inputs[0] = 7
    history.check()
    with pytest.raises(Violation, match="6 of 7 inputs were copied"):
        history.check(is_complete=True)


def test_a_partition_that_hangs_is_found() -> None:
    history = sound()
    history.stable, history.ends = [9, 9], [9, 11]
    with pytest.raises(Violation, match="partition 1 hangs: it ends at 11, and is stable up to 9"):
        history.check()
