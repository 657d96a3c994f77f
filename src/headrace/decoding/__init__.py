"""Values as typed columns: what was written as JSON, Avro, Protobuf, msgpack or text, as an Arrow column of its type.

A value that cannot be decoded is never lost and never stops the others: it is null in the column, and beside it stands
why; the raw bytes are where they were. A null (a tombstone) is a null, and no error.

    decoder = json.decoder(pa.struct([("id", pa.int64())]))
    values, errors = decoder(table.column("value"))

pyarrow comes with the extra `columns`, fastavro with `avro`, protobuf with `protobuf`. This package knows nothing of
brokers: bytes in, columns out.
"""
