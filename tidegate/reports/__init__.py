"""What a run did: its report, balances, and what reports mean for people."""
