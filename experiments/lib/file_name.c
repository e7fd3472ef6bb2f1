/*
 * file_name: see file_name.h.
 */
#include "file_name.h"

#include <string.h>

char *pleat_file_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : path;
    const char *dot = strchr(name, '.');
    return dot != NULL && dot > name ? strndup(name, (size_t)(dot - name)) : strdup(name);
}
