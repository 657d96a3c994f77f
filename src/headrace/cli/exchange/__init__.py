"""Records in files of other people's formats: JSON lines, CSV, Parquet. Each format is one file with a writer and a
reader of rows (rows.py); places.py opens what they write to and read from."""
