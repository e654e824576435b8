"""What each verb commits: the rules of the engine, as functions over one transaction.

A rule reads what it decides on and writes what follows inside the transaction that it is given, checks
before its first write, and never waits. Which file answers which question:

- `requests`  has this request been served before?
- `starting`  how does a run come to be?
- `fence`     what does a pause capture, and when is a fenced run quiescent?
- `holds`     what is asked, is it the same question as before, and who may answer it?
- `release`   what does an answer or a resume let go on, and what does it carry?
- `ending`    what do completion, failure, cancel, reset and retry leave behind?
- `claims`    who drives a run, and what became of a driver that died?
- `status`    what does a reader see?
"""
