/// An image of a volume, as the volume's list describes it. What the list does not say is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageRecord {
    /// File name within the volume.
    pub name: String,
    /// In pixels.
    pub width: Option<u32>,
    /// In pixels.
    pub height: Option<u32>,
    /// As Pillow names it: `1`, `L`, `RGB`, ...
    pub mode: Option<String>,
    /// Where it is not that of the ending.
    pub format: Option<String>,
    /// Of a TIFF.
    pub compression: Option<String>,
    /// In bytes.
    pub size: Option<u64>,
    /// Why whoever made the list could not read the image.
    pub error: Option<String>,
}
