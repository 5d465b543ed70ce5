module assay/clients/go

go 1.25.0
