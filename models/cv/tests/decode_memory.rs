//! Memory that a header may cost, alone in its process: the peak is the process's.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};

use parkhang_cv::decode::{decode_page, probe_page};

/// Bytes that the profile stands for.
const PROFILE: u64 = 400_000_000;

fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(kind);
    crc.update(data);
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&length, kind.as_slice(), data, &crc.sum().to_be_bytes()].concat()
}

fn deflated(mut bytes: impl Read) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    io::copy(&mut bytes, &mut encoder).unwrap();
    encoder.flush().unwrap();
    encoder.finish().unwrap()
}

/// Most memory that the process has had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    1024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
}

#[test]
fn a_profile_of_colours_is_not_decoded_however_much_it_stands_for() {
    let mut profile = b"x\0\0".to_vec();
    profile.extend(deflated(io::repeat(0).take(PROFILE)));
    let size = [1_u32.to_be_bytes(), 1_u32.to_be_bytes()].concat();
    let file = [
        b"\x89PNG\r\n\x1a\n".to_vec(),
        chunk(b"IHDR", &[size.as_slice(), &[8, 0, 0, 0, 0]].concat()),
        chunk(b"iCCP", &profile),
        chunk(b"IDAT", &deflated([0_u8, 200].as_slice())),
        chunk(b"IEND", b""),
    ]
    .concat();
    let header = probe_page(&file).unwrap();
    assert_eq!((header.width, header.height), (1, 1));
    assert!(peak() < PROFILE / 2, "{} bytes to probe", peak());
    assert_eq!(
        decode_page(&file, &Default::default()).unwrap().gray.as_raw(),
        &[200]
    );
}
