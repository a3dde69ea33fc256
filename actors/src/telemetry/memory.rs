/// Bytes of memory that this process has in use; `None` if the system does not tell.
pub fn resident_bytes() -> Option<u64> {
    resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Resident bytes in the text of `/proc/PID/status`, as `proc(5)` describes it.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_resident_is_read_off_the_status() {
        assert_eq!(
            resident("VmHWM:\t    4000 kB\nVmRSS:\t    3024 kB\n"),
            Some(3024 * 1024)
        );
        assert_eq!(resident("Name:\tkthreadd\n"), None);
        let now = resident_bytes().unwrap();
        assert!((1 << 20..1 << 40).contains(&now), "{now}");
    }
}
