//go:build linux && cgo && (amd64 || arm64)

package nvml

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "forward.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// bind leads go-nvml's calls to the loaded library of that path.
func bind(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if C.gpuhour_nvml_bind(name) == 0 {
		return fmt.Errorf("load %s: it was loaded, and the loader does not have it any more; restart the process", path)
	}
	return nil
}
