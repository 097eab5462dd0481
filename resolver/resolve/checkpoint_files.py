"""Small files of a checkpoint on any storage: written and read as Spark does with its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

#: End of the name of Hadoop's exception for an existing file, and of Spark's variant.
_EXISTS = "FileAlreadyExistsException"


class CheckpointFiles:
    """The files below a folder, given as a path or URI; a file exists whole or not at all."""

    def __init__(self, spark: SparkSession, folder: Path | str) -> None:
        assert spark._jvm is not None  # noqa: S101 - only Spark Connect has none
        self._spark = spark
        self._jvm: Any = spark._jvm
        self._folder = str(folder).rstrip("/")

    def names(self, folder: str) -> list[str]:
        """Return the names of the whole files in a folder below; none without such a folder."""
        manager, path = self._manager(), self._path(folder)
        if not manager.exists(path):
            return []
        names = [str(file.getPath().getName()) for file in manager.list(path)]
        return [name for name in names if not name.startswith(".")]

    def numbers(self, folder: str) -> list[int]:
        """Return the numbers that name files of a folder, in ascending order."""
        return sorted(int(name) for name in self.names(folder) if name.isdecimal())

    def read(self, name: str) -> str | None:
        """Return a file's text; None if the file does not exist."""
        manager, path = self._manager(), self._path(name)
        if not manager.exists(path):
            return None
        stream = manager.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, name: str, text: str) -> None:
        """Write a new file; raises `FileExistsError` if it exists."""
        manager, path = self._manager(), self._path(name)
        manager.mkdirs(path.getParent())
        try:
            stream = manager.createAtomic(path, False)
            try:
                stream.write(text.encode())
                stream.close()
            except Py4JJavaError:
                stream.cancel()  # otherwise the partial file stays, under a name of its own
                raise
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName().endswith(_EXISTS):
                raise FileExistsError(name) from error
            raise

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        self._manager().delete(self._path(name))

    def _manager(self) -> Any:
        """Return Spark's file manager; not kept, since releasing it after the JVM's end fails."""
        checkpointing = self._jvm.org.apache.spark.sql.execution.streaming.checkpointing
        options = self._spark._jsparkSession.sessionState().newHadoopConf()
        return checkpointing.CheckpointFileManager.create(self._path(""), options)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/{name}")
