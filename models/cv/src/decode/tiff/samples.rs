//! A row of packed samples to a row of grey.

use super::gray::{from_ink, from_u16, luma, on_white};
use super::layout::{Alpha, Layout, Photometric};

/// Converter of rows of one layout to grey.
pub(super) struct ToGray<'a> {
    layout: &'a Layout,
    /// Grey of every value that a sample of up to 8 bits can have, for pages of one sample a pixel.
    table: Vec<u8>,
    /// The eight pixels of every byte of 1-bit samples.
    octets: Vec<[u8; 8]>,
}

impl<'a> ToGray<'a> {
    pub(super) fn new(layout: &'a Layout) -> Self {
        // Samples of 16 bits are scaled one by one and never use the table.
        let top = (1_u32 << layout.bits.min(8)) - 1;
        let table: Vec<u8> = (0..=top)
            .map(|v| match &layout.photometric {
                Photometric::Palette(grays) => grays[v as usize],
                Photometric::WhiteIsZero => 255 - (v * 255 / top) as u8,
                _ => (v * 255 / top) as u8,
            })
            .collect();
        // Most scans of one bit are large: one look-up writes eight pixels.
        let octets = match layout.bits {
            1 => (0..=255_u8)
                .map(|b| std::array::from_fn(|i| table[usize::from(b >> (7 - i) & 1)]))
                .collect(),
            _ => Vec::new(),
        };
        Self {
            layout,
            table,
            octets,
        }
    }

    /// Fills `gray` from the beginning of a row. `planes` is one slice of interleaved samples, or one a sample.
    pub(super) fn row(&self, planes: &[&[u8]], gray: &mut [u8]) {
        match (self.layout.samples, self.layout.bits, planes) {
            (1, 1, [packed]) => self.bits(packed, gray),
            (1, 8, [packed]) => {
                gray.iter_mut()
                    .zip(*packed)
                    .for_each(|(g, &v)| *g = self.table[usize::from(v)]);
            }
            _ => gray
                .iter_mut()
                .enumerate()
                .for_each(|(x, g)| *g = self.pixel(planes, x)),
        }
    }

    fn bits(&self, packed: &[u8], gray: &mut [u8]) {
        let (whole, rest) = gray.as_chunks_mut::<8>();
        for (pixels, &byte) in whole.iter_mut().zip(packed) {
            *pixels = self.octets[usize::from(byte)];
        }
        if let Some(&byte) = packed.get(whole.len()) {
            let length = rest.len();
            rest.copy_from_slice(&self.octets[usize::from(byte)][..length]);
        }
    }

    fn pixel(&self, planes: &[&[u8]], x: usize) -> u8 {
        let at = |i| self.sample(planes, x, i);
        let gray = match &self.layout.photometric {
            Photometric::Palette(grays) => grays[usize::from(self.raw(planes, x, 0))],
            Photometric::WhiteIsZero => 255 - at(0),
            Photometric::BlackIsZero => at(0),
            Photometric::Rgb => luma([at(0), at(1), at(2)]),
            Photometric::Cmyk => from_ink([at(0), at(1), at(2), at(3)]),
        };
        match self.layout.alpha {
            Alpha::None => gray,
            Alpha::Unassociated => on_white(gray, at(self.layout.photometric.samples())),
            // The colours are multiplied by alpha already and only the share of the paper is missing. A
            // writer that did not multiply them would go over 255.
            Alpha::Associated => gray.saturating_add(255 - at(self.layout.photometric.samples())),
        }
    }

    /// Sample `i` of pixel `x`, scaled to 8 bits.
    fn sample(&self, planes: &[&[u8]], x: usize, i: usize) -> u8 {
        let raw = self.raw(planes, x, i);
        match self.layout.bits {
            16 => from_u16(raw),
            8 => raw as u8,
            bits => (raw * 255 / ((1 << bits) - 1)) as u8,
        }
    }

    /// Sample `i` of pixel `x` as stored.
    fn raw(&self, planes: &[&[u8]], x: usize, i: usize) -> u16 {
        let (data, index) = if self.layout.planar {
            (planes[i], x)
        } else {
            (planes[0], x * self.layout.samples + i)
        };
        match self.layout.bits {
            16 => {
                let bytes = [data[2 * index], data[2 * index + 1]];
                if self.layout.big_endian {
                    u16::from_be_bytes(bytes)
                } else {
                    u16::from_le_bytes(bytes)
                }
            }
            8 => u16::from(data[index]),
            bits => {
                let position = index * bits;
                // 1, 2 and 4 divide 8: a sample never lies in two bytes.
                let mask = (1_u16 << bits) - 1;
                u16::from(data[position / 8]) >> (8 - bits - position % 8) & mask
            }
        }
    }
}
