-- Where the PDF lies that the pages of a volume come from, if the source of the scans does not know it by the volume's name.
alter table volumes add column document_key text;
