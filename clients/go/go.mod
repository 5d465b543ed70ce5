module github.com/assay-ai/assay/clients/go

go 1.25.0
