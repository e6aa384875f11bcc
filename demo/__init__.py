"""The demo: real flights and generated clicks arrive in three waves, and the real DAGs process them. `make demo` runs it.

``flights_feed`` and ``clicks_feed`` write the input, ``services`` starts the broker and Airflow, ``runs`` runs the DAGs in a
child process, ``recompute`` computes the expected tables from the input alone, ``scenario`` is the sequence of steps, and
``output`` prints the results.
"""
