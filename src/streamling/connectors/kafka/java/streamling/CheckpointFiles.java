package streamling;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files in which Spark logs the offsets of its micro-batches.
 *
 * Without Hadoop's native library, which PySpark does not include, Hadoop runs {@code chmod} in a process of its own for
 * every file and folder it creates: five times when a query starts and four times in each micro-batch. The files are in
 * a folder that only this user can open, are deleted with the query, and need neither permissions nor checksums.
 */
public final class CheckpointFiles extends FileSystemBasedCheckpointFileManager {

    public CheckpointFiles(Path path, Configuration configuration) {
        super(path, withLocalFiles(configuration));
    }

    private static Configuration withLocalFiles(Configuration configuration) {
        Configuration copy = new Configuration(configuration);
        copy.setClass("fs.file.impl", LocalFiles.class, FileSystem.class);
        copy.setBoolean("fs.file.impl.disable.cache", true);
        return copy;
    }

    public static final class LocalFiles extends RawLocalFileSystem {

        @Override
        public void setPermission(Path path, FsPermission permission) {
            // the umask of this process decides
        }
    }
}
