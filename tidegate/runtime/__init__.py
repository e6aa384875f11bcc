"""What a job needs on the machine where it starts: Java, the pinned jars, the class data archive, packages with bytecode.

Everything here only looks for what exists. ``devstack``, which is not part of the installed platform, downloads the jars and
creates the archive.
"""
