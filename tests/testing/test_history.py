import pytest

from headrace.testing.history import ACKS_ALL, Batch, History, Seen, Violation


def history(*batches):
    made = History()
    for batch in batches:
        made.sending(batch)
    return made


def batch(order, count=2, acks=ACKS_ALL, producer="p", partition=0, session=0):
    values = [f"{producer}.{session}.{order}.{number}".encode() for number in range(count)]
    return Batch(producer, session, order, partition, acks, True, values)


def log(*batches, start=0):
    values = [value for each in batches for value in each.values]
    return [Seen(start + number, 1, value) for number, value in enumerate(values)]


def check(made, seen, start=0):
    made.check(0, start, start + len(seen), seen)


def test_what_was_acknowledged_and_stands_in_order_is_accepted():
    one, two = batch(0), batch(1)
    made = history(one, two)
    made.acknowledged(one, 0, 1.0)
    made.acknowledged(two, 2, 2.0)
    check(made, log(one, two))


def test_a_batch_of_unknown_fate_may_be_there_or_not():
    one, two = batch(0), batch(1)
    made = history(one, two)
    check(made, log(one))
    check(made, log(one, two))


def test_a_lost_acknowledged_batch_is_found():
    one, two = batch(0), batch(1)
    made = history(one, two)
    made.acknowledged(two, 2, 1.0)
    with pytest.raises(Violation, match=r"p\.0\.1 was acknowledged \(acks=all\) at offset 2 .* is nowhere"):
        check(made, log(one))


def test_a_batch_that_stands_elsewhere_than_acknowledged_is_found():
    one, two = batch(0), batch(1)
    made = history(one, two)
    made.acknowledged(two, 5, 1.0)
    with pytest.raises(Violation, match="stands at 2"):
        check(made, log(one, two))


def test_power_loss_excuses_acks_1_only_and_only_afterwards():
    one = batch(0, acks=1)
    made = history(one)
    made.lost_power(0.5)
    one.sent_at = 0.9
    made.acknowledged(one, 0, 1.0)
    with pytest.raises(Violation, match="acks=1"):
        check(made, [])
    made.lost_power(2.0)
    check(made, [])


def test_a_second_acknowledgement_with_another_offset_is_found():
    one = batch(0)
    made = history(one)
    made.acknowledged(one, 0, 1.0)
    made.acknowledged(one, 0, 2.0)
    with pytest.raises(Violation, match="now at 7"):
        made.acknowledged(one, 7, 3.0)


def test_a_duplicate_is_found():
    one, two = batch(0), batch(1)
    with pytest.raises(Violation, match=r"p\.0\.0 stands twice, at 0 and at 4"):
        check(history(one, two), log(one, two, one))


def test_a_changed_order_of_one_producer_is_found_but_producers_may_interleave():
    one, two, other = batch(0), batch(1), batch(0, producer="q")
    check(history(one, two, other), log(one, other, two))
    with pytest.raises(Violation, match=r"p\.0\.0 stands after p\.0\.1"):
        check(history(one, two, other), log(two, other, one))


def test_a_hole_in_the_offsets_is_found():
    one, two = batch(0), batch(1)
    with pytest.raises(Violation, match="offsets 0 to 3 expected, 0 to 1, 3 to 4 found"):
        history(one, two).check(0, 0, 4, log(one) + log(two, start=3))


def test_a_batch_that_is_not_whole_is_found():
    one, two = batch(0), batch(1)
    with pytest.raises(Violation, match="not whole"):
        check(history(one, two), [Seen(0, 1, one.values[0]), Seen(1, 1, two.values[0])])


def test_bytes_that_nobody_produced_are_found():
    one = batch(0)
    made = history(one)
    with pytest.raises(Violation, match="nobody produced"):
        made.read(0, Seen(0, 1, b"else"))
    with pytest.raises(Violation, match="nobody produced"):
        made.read(1, Seen(0, 1, one.values[0]))


def test_two_reads_of_one_offset_differ_only_across_leader_epochs():
    one, two = batch(0), batch(1)
    made = history(one, two)
    made.read(0, Seen(0, 1, one.values[0]))
    made.read(0, Seen(0, 2, two.values[0]))
    with pytest.raises(Violation, match="was read as"):
        made.read(0, Seen(0, 1, two.values[0]))


def test_a_high_watermark_below_what_was_acknowledged_is_found():
    one = batch(0)
    made = history(one)
    made.acknowledged(one, 0, 1.0)
    made.watermark(0, 2, made.synced_end[0])
    with pytest.raises(Violation, match="high watermark of 1"):
        made.watermark(0, 1, made.synced_end[0])
