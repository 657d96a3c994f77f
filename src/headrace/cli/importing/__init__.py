"""`headrace import lines|binary|pubsub DIR`: what another broker stored, into topics of ours.

| file | is |
|---|---|
| sources | what a folder of stored records is to the rest: topics, partitions, records in order, positions |
| lines, binary, pubsub | the three kinds of folder |
| telling | whose folder it is, for whoever named another |
| fernet | values that were stored encrypted |
| transfer | one partition: what is there already, the rest of it, and the proof |
| positions | positions of http groups |
| command | the command |

A partition of the source becomes a partition of a topic that the import has for itself, record for record: the n-th of
the one is at offset n of the other. So the topic's end says how far an import came, whatever ended it, and nothing else
has to be remembered: who runs it again goes on there. What is there is compared with the source first, and all of it is
read back at the end: the same number of records, the same checksum.
"""
