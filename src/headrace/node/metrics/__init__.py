"""Metrics: read from the machines when somebody asks, written as Prometheus reads them.

| file | is |
|---|---|
| catalogue | every metric: name, kind, labels, meaning |
| sheet | what was read: values under those names |
| reading | from the machines onto a sheet; on the loop, quick |
| text | from a sheet to text; off the loop |
"""
