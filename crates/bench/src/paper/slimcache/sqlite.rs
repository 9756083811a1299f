//! The database behind the cache: SQLite, with every object's value in a table by primary key, in a
//! file that is removed with it.
//!
//! Its pages are most likely in the kernel's cache, and there is no network: so the time of a query
//! is measured, and the delay of a remote database is added to the result ([`super::database`]).

use rusqlite::{Connection, OpenFlags, params};

use crate::failure::{Failure, Outcome};
use crate::paper::data::Data;
use crate::server::flash_file::FlashFile;

/// A loaded database.
pub struct Database {
    connection: Connection,
    /// Declared after the connection, so that it is dropped last.
    _file: FlashFile,
}

fn failed(doing: &'static str) -> impl Fn(rusqlite::Error) -> Failure {
    move |error| Failure::invalid(doing, error.to_string())
}

impl Database {
    /// Returns a database with all objects.
    pub fn load(data: &Data) -> Outcome<Database> {
        let file = FlashFile::in_folder(None, false)?;
        let loading = failed("loading the database");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = Connection::open_with_flags(file.path(), flags).map_err(&loading)?;
        // Nothing of it outlives this process, so it need not survive a crash.
        let sql = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
            CREATE TABLE items (id INTEGER PRIMARY KEY, value BLOB NOT NULL); BEGIN";
        connection.execute_batch(sql).map_err(&loading)?;
        let mut value = Vec::new();
        for object in data.all() {
            data.write_value(object, &mut value);
            let sql = "INSERT INTO items (id, value) VALUES (?1, ?2)";
            let mut insert = connection.prepare_cached(sql).map_err(&loading)?;
            insert.execute(params![object, value]).map_err(&loading)?;
        }
        connection.execute_batch("COMMIT").map_err(&loading)?;
        Ok(Database { connection, _file: file })
    }

    /// Reads an object's value.
    pub fn read(&self, object: u32, value: &mut Vec<u8>) -> Outcome<()> {
        let reading = failed("asking the database");
        let sql = "SELECT value FROM items WHERE id = ?1";
        let mut select = self.connection.prepare_cached(sql).map_err(&reading)?;
        let found = select.query_row(params![object], |row| {
            value.clear();
            value.extend_from_slice(row.get_ref(0)?.as_blob()?);
            Ok(())
        });
        found.map_err(&reading)
    }

    /// SQLite's version.
    pub fn version() -> &'static str {
        rusqlite::version()
    }
}

#[cfg(test)]
mod tests {
    use super::{Data, Database};

    #[test]
    fn every_object_has_its_value_and_others_are_not_there() {
        let data = Data::of(10_000, None, 1).expect("no file is needed");
        let database = Database::load(&data).expect("files can be made");
        let (mut value, mut wanted) = (Vec::new(), Vec::new());
        for object in [0, 1, 5_000, 9_999] {
            database.read(object, &mut value).expect("it is there");
            data.write_value(object, &mut wanted);
            assert_eq!(value, wanted);
        }
        assert!(database.read(10_000, &mut value).is_err());
        let path = database._file.path().to_owned();
        assert!(path.exists());
        drop(database);
        assert!(!path.exists());
    }
}
