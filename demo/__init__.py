"""The demo: real flights, generated clicks and payments arrive in three waves, and the real DAGs process them.

`make demo` runs it. ``flights_feed``, ``weather_feed``, ``clicks_feed`` and ``payments_feed`` write the input, ``services`` starts the
broker and Airflow, ``runs`` runs the DAGs in child processes, ``recompute`` and ``recompute_payments`` compute the expected tables
from the input alone, ``scenario`` is the sequence of steps, and ``output`` prints the results.
"""
