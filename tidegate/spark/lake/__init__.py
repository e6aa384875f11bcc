"""What Delta tables hold of our writes, and one statement for each way of writing."""
