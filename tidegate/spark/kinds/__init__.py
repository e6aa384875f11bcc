"""The code of each kind of flow (`tidegate.spec.kinds`): how its stream is read, and how a batch of it is split."""
