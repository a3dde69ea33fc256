//! Images of a volume.

/// Image of a volume, as the volume's list describes it. A field on which the list is silent is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageRecord {
    /// File name within the volume.
    pub name: String,
    /// Width in pixels.
    pub width: Option<u32>,
    /// Height in pixels.
    pub height: Option<u32>,
    /// Mode by its name in Pillow: `1`, `L`, `RGB`, ...
    pub mode: Option<String>,
    /// Format, if it is not the one that the file name's ending says.
    pub format: Option<String>,
    /// Compression of a TIFF.
    pub compression: Option<String>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Reason for which the maker of the list could not read the image.
    pub error: Option<String>,
}
