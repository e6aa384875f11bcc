"""What flows: one declaration a file. `tidegate new NAME` adds one."""
