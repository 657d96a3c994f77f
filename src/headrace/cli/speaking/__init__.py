"""`headrace publish|subscribe|create-topic|history` at any door, in the words that the door's own tools have.

| file | is |
|---|---|
| wishes | what is asked for, which door takes which option, what is heard |
| saying | what is printed: as the door's own tools print it, or JSON |
| kafka, binary, lines, json, http, msgpack | how each door is spoken to |
"""
