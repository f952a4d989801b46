//! The files of a folder.

use std::{io, os::unix::ffi::OsStrExt, path::Path};

/// The longest id that the queue takes, in bytes.
const LONGEST_ID: usize = 512;

/// The paths of all files below `dir`, relative to it. Hidden folders, build folders (`target`),
/// links and what cannot be read are left out.
pub fn below(dir: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if folder == dir => return Err(error),
            Err(_) => continue,
        };
        for entry in entries {
            let entry = entry?;
            let (kind, path, name) = (entry.file_type()?, entry.path(), entry.file_name());
            let hidden = name.as_bytes().starts_with(b".") || name == "target";
            if kind.is_dir() && !hidden {
                folders.push(path);
            } else if kind.is_file() && std::fs::File::open(&path).is_ok() {
                let path = path
                    .strip_prefix(dir)
                    .unwrap_or(&path)
                    .as_os_str()
                    .as_bytes()
                    .to_vec();
                if path.len() <= LONGEST_ID {
                    files.push(path);
                }
            }
        }
    }
    files.sort();
    Ok(files)
}
