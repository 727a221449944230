//! A sparse file costs its data: it is measured, saved and restored without its holes.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use horde_supervisor::ports::repo::Repo;

use crate::support::city::City;

const MIB: u64 = 1 << 20;

/// Makes a file of this length with a little data near its beginning, in its middle and at its end.
fn sparse(path: &Path, length: u64) {
    let file = File::create(path).unwrap();
    for (at, byte) in [(5, b'a'), (length / 2 + 1, b'b'), (length - 5000, b'c')] {
        file.write_all_at(&[byte; 5000], at).unwrap();
    }
}

/// Returns the number of bytes that everything below a path takes on the disk.
fn taken(path: &Path) -> u64 {
    let meta = fs::symlink_metadata(path).unwrap();
    let below = match meta.is_dir() {
        true => fs::read_dir(path)
            .unwrap()
            .map(|entry| taken(&entry.unwrap().path()))
            .sum(),
        false => 0,
    };
    meta.blocks() * 512 + below
}

fn same(one: &Path, other: &Path) -> bool {
    let open = |path| BufReader::new(File::open(path).unwrap());
    let (mut one, mut other) = (open(one), open(other));
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let length = one.read(&mut left).unwrap();
        if length == 0 {
            return other.read(&mut right).unwrap() == 0;
        }
        let is_read = other.read_exact(&mut right[..length]).is_ok();
        if !is_read || left[..length] != right[..length] {
            return false;
        }
    }
}

fn costs_its_data(length: u64) {
    let city = City::new();
    let sandbox = city.sandbox();
    sparse(&sandbox.join("disk.img"), length);
    let kept = city.root().join("kept.img");
    sparse(&kept, length);
    assert!(taken(&kept) < MIB, "this file system keeps no holes");

    let before = taken(city.repo.repo_dir());
    let size = city.repo.salvage_size(&sandbox).unwrap();
    assert!(
        (15_000..MIB).contains(&size),
        "it fits a small limit: {size}"
    );
    let record = city.salvage(&sandbox);
    assert_eq!(record.bytes, size);
    let stored = taken(city.repo.repo_dir()) - before;
    // Zeros shrink to a thousandth.
    assert!(stored < MIB + length / 500, "{stored}");

    let restored = city.restored(&record).join("disk.img");
    assert!(same(&kept, &restored));
    let room = taken(&restored);
    assert!(room < MIB, "it has its holes again: {room}");
}

#[test]
fn sparse_file_costs_its_data() {
    costs_its_data(16 * MIB);
}

/// The length of a sparse file has nearly no end, and its zeros would be hashed for days.
#[test]
fn file_that_is_too_long_to_read_is_named_and_its_sandbox_kept() {
    let city = City::new();
    let sandbox = city.sandbox();
    sparse(&sandbox.join("disk.img"), 8 << 40);
    let refused = city.repo.salvage_size(&sandbox).unwrap_err().to_string();
    assert!(refused.contains("disk.img"), "{refused}");
    assert!(refused.contains("is not read"), "{refused}");
    // Without a measurement there is no permit to remove it.
    let refused = city.repo.measure(&sandbox, "main").unwrap_err().to_string();
    assert!(refused.contains("disk.img"), "{refused}");
}

#[test]
#[ignore = "long tier: a gigabyte of zeros is hashed four times"]
fn sparse_file_of_a_gigabyte_costs_its_data() {
    costs_its_data(1024 * MIB);
}
