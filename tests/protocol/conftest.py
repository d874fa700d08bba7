"""The transcripts of every protocol stand on `transcripts.py` and `stage.py`, beside this file."""
