"""What a run is asked to do: its request, the kinds of run, and the command that starts it."""
