"""The demo: real flights and made-up clicks land wave after wave, and the real DAGs move them. `make demo` runs it.

``flights_feed`` and ``clicks_feed`` land the input, ``runs`` runs the DAGs in a child process, ``recompute`` works out
from the input alone what the tables must hold, ``story`` tells what happened.
"""
