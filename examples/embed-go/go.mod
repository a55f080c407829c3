module github.com/gpuhour/gpuhour/examples/embed-go

go 1.26.0

require github.com/gpuhour/gpuhour v0.0.0

replace github.com/gpuhour/gpuhour => ../..
