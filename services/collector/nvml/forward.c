//go:build linux && cgo && (amd64 || arm64)

/* The slots that the functions of forward.S jump through, and what stands in them. */
#include "forward.h"

#include <dlfcn.h>
#include <stddef.h>

enum { UNINITIALIZED = 1, FUNCTION_NOT_FOUND = 13 }; /* of nvmlReturn_t */

static int uninitialized(void) { return UNINITIALIZED; }

static int not_found(void) { return FUNCTION_NOT_FOUND; }

/* A caller would take the number that the others return for the text's address. */
static const char *no_text(void) { return "no text of the NVML library"; }

typedef void (*function_t)(void); /* whatever it takes and returns */

static const char *const names[] = {
#define CALL(name) #name,
#define TEXT(name) #name,
#include "symbols.h"
};

/* In the order of names, which is that of forward.S. */
__attribute__((visibility("hidden"))) function_t gpuhour_nvml_slots[] = {
#define CALL(name) (function_t)uninitialized,
#define TEXT(name) (function_t)no_text,
#include "symbols.h"
};

/* Names are looked up in the library itself: the whole program's would be found here, and jump to themselves. */
int gpuhour_nvml_bind(const char *path) {
	void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (library == NULL)
		return 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		function_t found = (function_t)dlsym(library, names[i]);
		if (found != NULL)
			gpuhour_nvml_slots[i] = found;
		else if (gpuhour_nvml_slots[i] == (function_t)uninitialized)
			gpuhour_nvml_slots[i] = (function_t)not_found;
	}
	return 1;
}
