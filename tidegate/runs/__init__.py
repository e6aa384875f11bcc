"""The kinds of run, a folder each: what one applies to, what it plans, and what it does to a flow (`tidegate.requests.runs`)."""
