"""What runs beside a candidate, in a process of its own: it is started by path and imports the standard library only.

``launcher`` makes the namespaces, ``first`` is their first process (it builds the file system, gives up every
privilege, starts the candidate and judges it), ``candidate`` is what the candidate's own process runs. None of them
imports the rest of this package: a start costs milliseconds, and nothing of the trainer is in their memory.
"""
