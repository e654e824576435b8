"""What is measured in processes of their own; `__main__.py` calls it, `lines.py` is how it answers.

The modules that `peers.py` compares, one for each library, have two functions, each for the names it knows:

- `trips(name, path)`: something that asks again and again stands at a question; for each number that it
  reads it reports the seconds of so many round trips, each from the hand-over of an answer to the next
  question. `path` is the database, empty for what keeps all in memory.
- `tell(name, path, answer)`: the story of `story.py`, in the database at `path`: begun if it is not, gone on
  with if a process before this one was killed; reports its value.

`lives.py` is what `backends.py` compares.
"""
