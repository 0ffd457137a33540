"""Random programs, run under Reprise and by eager alone (random_programs.py)."""
