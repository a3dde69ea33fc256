use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, Field};

use super::{ColumnError, Columns};

/// Row of an artifact table. Columns that the reader's row type does not have are ignored, so a table may gain columns
/// at its end without a new version.
pub trait ArtifactRow: Clone + Send + 'static {
    const TABLE: &'static str;
    /// Version of the table, which grows when readers of the one before could not read it.
    const VERSION: u32;
    /// Number of rows that are turned into columns at once: the memory of a writer beyond its row group.
    const BATCH_ROWS: usize;

    fn fields() -> Vec<Field>;

    /// Arrays of the columns, one for each of [`fields`](Self::fields), in that order.
    fn to_columns(rows: &[Self]) -> Result<Vec<ArrayRef>, ArrowError>;

    fn from_columns(columns: &Columns<'_>) -> Result<Vec<Self>, ColumnError>;
}

/// Declares a row struct whose fields are the columns of a table, in order, and implements [`ArtifactRow`] for it.
macro_rules! artifact_row {
    (
        $(#[$attribute:meta])*
        pub struct $row:ident = $table:literal, version $version:literal, batches of $batch_rows:literal {
            $( $(#[$doc:meta])* $field:ident: $type:ty, )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $row {
            $( $(#[$doc])* pub $field: $type, )+
        }

        impl $crate::artifact::ArtifactRow for $row {
            const TABLE: &'static str = $table;
            const VERSION: u32 = $version;
            const BATCH_ROWS: usize = $batch_rows;

            fn fields() -> Vec<arrow_schema::Field> {
                vec![$( $crate::artifact::columns::field::<$type>(stringify!($field)), )+]
            }

            fn to_columns(rows: &[Self]) -> Result<Vec<arrow_array::ArrayRef>, arrow_schema::ArrowError> {
                use $crate::artifact::columns::ColumnValue;
                Ok(vec![$( <$type>::to_array(rows.iter().map(|row| &row.$field))?, )+])
            }

            fn from_columns(
                columns: &$crate::artifact::Columns<'_>,
            ) -> Result<Vec<Self>, $crate::artifact::ColumnError> {
                $( let mut $field = columns.values::<$type>(stringify!($field))?.into_iter(); )+
                let mut rows = Vec::with_capacity(columns.rows());
                while let ($( Some($field), )+) = ($( $field.next(), )+) {
                    rows.push(Self { $( $field, )+ });
                }
                Ok(rows)
            }
        }
    };
}

pub(super) use artifact_row;
