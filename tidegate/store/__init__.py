"""The door to the lake and the landing zones: every read and write that the platform itself does there.

Spark, Delta, delta-rs and executors read and write by themselves, at addresses that they get from a store. What reads only local files
gets them from `tidegate.store.copies`.
"""

from tidegate.store.address import Address as Address
from tidegate.store.local import LocalStore as LocalStore
from tidegate.store.store import Content as Content
from tidegate.store.store import Entry as Entry
from tidegate.store.store import ReadableStore as ReadableStore
from tidegate.store.store import Store as Store
