"""Local files without child processes: the same file system of Hadoop, with system calls in place of commands.

Without its native library, Hadoop starts ``chmod`` for each local file that it writes, and ``readlink`` four to eight times
for each rename of a checkpoint or of a commit of Delta: about fifty processes per micro-batch, which take longer than the
work of a micro-batch of few rows. Java has had calls for both since version 7. What is written, with which permissions, and in
which order, is the same; an application uses Hadoop's own classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = "org.apache.hadoop.fs.local"
_SOURCE = """
package org.apache.hadoop.fs.local;

public class SystemCalls {
    public static class Raw extends org.apache.hadoop.fs.RawLocalFileSystem {
        public void setPermission(
            org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission permission
        ) throws java.io.IOException {
            String symbols = permission.getUserAction().SYMBOL
                + permission.getGroupAction().SYMBOL + permission.getOtherAction().SYMBOL;
            java.nio.file.Files.setPosixFilePermissions(
                pathToFile(path).toPath(), java.nio.file.attribute.PosixFilePermissions.fromString(symbols));
        }

        // Hadoop calls `readlink` with a URL, which is never the path of a link, and then does this.
        public org.apache.hadoop.fs.FileStatus getFileLinkStatus(org.apache.hadoop.fs.Path path)
            throws java.io.IOException {
            return getFileStatus(path);
        }
    }

    public static class WithChecksums extends org.apache.hadoop.fs.LocalFileSystem {
        public WithChecksums() {
            super(new Raw());
        }
    }

    // FileContext.
    public static class Context extends LocalFs {
        public Context(java.net.URI uri, org.apache.hadoop.conf.Configuration conf) throws Exception {
            super(conf);
            org.apache.hadoop.fs.FileSystem raw = new Raw();
            raw.initialize(uri, conf);
            java.lang.reflect.Field used =
                org.apache.hadoop.fs.DelegateToFileSystem.class.getDeclaredField("fsImpl");
            used.setAccessible(true);
            used.set(getMyFs(), raw);
        }
    }
}
"""


def use_system_calls(session: SparkSession) -> None:
    """Replace the local file system of this process's JVM; for sessions that were just started."""
    # Spark has Janino, which compiles without a JDK.
    jvm: Any = session._jvm
    files = jvm.java.lang.Class.forName(f"{PACKAGE}.LocalFs")
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(files.getClassLoader())
    compiler.cook(_SOURCE)
    handles = jvm.java.lang.invoke.MethodHandles
    package = handles.privateLookupIn(files, handles.lookup())
    for code in compiler.getBytecodes().values():
        package.defineClass(code)
    conf: Any = session._jsc.hadoopConfiguration()
    conf.set("fs.file.impl", f"{PACKAGE}.SystemCalls$WithChecksums")
    conf.set("fs.AbstractFileSystem.file.impl", f"{PACKAGE}.SystemCalls$Context")
    # Hadoop keeps one file system for all.
    file_system = jvm.org.apache.hadoop.fs.FileSystem
    file_system.closeAll()
    file_system.getLocal(conf)
