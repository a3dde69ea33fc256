//! Flags that set one or several keys.

use clap::Args;

/// Value that a flag gives to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortcut {
    pub flag: &'static str,
    pub key: &'static str,
    pub value: String,
}

/// Flags for the places of scans and artifacts.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Buckets")]
pub struct BucketArgs {
    /// Bucket with the scans, NAME or NAME/PREFIX: pages.s3.bucket and pages.s3.prefix.
    #[arg(long, value_name = "BUCKET")]
    pub input_bucket: Option<String>,
    /// Folder with the scans, such as a copy of BDRC's archive: pages.folder.
    #[arg(long, value_name = "DIR", conflicts_with = "input_bucket")]
    pub input_folder: Option<String>,
    /// Layout of the scans, "folder" (a folder of images for each volume, named W-I) or "bdrc" (BDRC's archive): pages.kind.
    #[arg(long, value_name = "KIND")]
    pub input_kind: Option<String>,
    /// Bucket for the artifacts, NAME or NAME/PREFIX: storage.s3.bucket and storage.s3.prefix.
    #[arg(long, value_name = "BUCKET")]
    pub output_bucket: Option<String>,
    /// URL of the server of both buckets, if it is not AWS: pages.s3.endpoint and storage.s3.endpoint.
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// Region of both buckets: pages.s3.region and storage.s3.region.
    #[arg(long)]
    pub region: Option<String>,
    /// Layout of the artifacts in their store, "bdrc_v2", "bdrc_v1" or "ocr_bboxes": job.layout.
    #[arg(long, value_name = "NAME")]
    pub layout: Option<String>,
}

impl BucketArgs {
    pub fn shortcuts(&self) -> Vec<Shortcut> {
        let mut found = Vec::new();
        let mut set = |flag, key, value: &str| {
            let value = value.to_owned();
            found.push(Shortcut { flag, key, value });
        };
        if let Some(place) = &self.input_bucket {
            let (bucket, prefix) = split_place(place);
            set("--input-bucket", "pages.s3.bucket", bucket);
            set("--input-bucket", "pages.s3.prefix", prefix);
            // The scans are in one place: a folder from the file would contradict the bucket.
            set("--input-bucket", "pages.folder", "");
        }
        if let Some(folder) = &self.input_folder {
            set("--input-folder", "pages.folder", folder);
            // As above: a bucket from the file would contradict the folder.
            set("--input-folder", "pages.s3.bucket", "");
        }
        if let Some(kind) = &self.input_kind {
            set("--input-kind", "pages.kind", kind);
        }
        if let Some(place) = &self.output_bucket {
            let (bucket, prefix) = split_place(place);
            set("--output-bucket", "storage.kind", "s3");
            set("--output-bucket", "storage.s3.bucket", bucket);
            set("--output-bucket", "storage.s3.prefix", prefix);
        }
        for key in ["pages.s3.endpoint", "storage.s3.endpoint"] {
            if let Some(url) = &self.endpoint {
                set("--endpoint", key, url);
            }
        }
        for key in ["pages.s3.region", "storage.s3.region"] {
            if let Some(region) = &self.region {
                set("--region", key, region);
            }
        }
        if let Some(layout) = &self.layout {
            set("--layout", "job.layout", layout);
        }
        found
    }
}

/// Splits `BUCKET/PREFIX` or `s3://BUCKET/PREFIX`, as the AWS tools write it.
fn split_place(place: &str) -> (&str, &str) {
    let place = place.strip_prefix("s3://").unwrap_or(place);
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    // Keys are joined with a slash, and a second one would make another key of S3.
    (bucket, prefix.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_bucket_and_a_prefix() {
        assert_eq!(split_place("scans"), ("scans", ""));
        assert_eq!(split_place("scans/"), ("scans", ""));
        assert_eq!(split_place("s3://scans/a/b/"), ("scans", "a/b"));
    }
}
