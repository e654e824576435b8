"""What is measured in processes of their own, one module for each library; `__main__.py` calls it.

A module has two functions, each for the names that it knows:

- `trips(name, path, rounds, report)`: something that asks again and again stands at a question; for each
  number of `rounds` it reports the seconds of so many round trips, each from the hand-over of an answer to
  the next question. `path` is the database, None for what keeps all in memory.
- `tell(name, path, answer)`: the story of `story.py`, in the database at `path`: begun if it is not, gone on
  with if a process before this one was killed; gives its value.
"""
