"""The RecordBatch v2: header, records, compression, columns. No file, no socket, no clock."""
