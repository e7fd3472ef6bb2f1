/*
 * hooks: calls the pool functions of the plug-in as PyTorch does, with a C++ pair and a C++
 * function: on every platform these must arrive as compat/torch/plugin.h takes them.
 *
 *   hooks PLUGIN DRIVER
 */
#include <pleat/allocator.h>
#include <pleat/device_table.h>

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <utility>

using pool_id = std::pair<unsigned long long, unsigned long long>;

static void *library;

template <typename T> static T *find(const char *name)
{
    void *symbol = dlsym(library, name);
    if (symbol == nullptr) {
        std::printf("no %s: %s\n", name, dlerror());
        std::exit(1);
    }
    return reinterpret_cast<T *>(symbol);
}

/* Is the one segment of the allocator in this pool? */
static bool segment_is_in(pool_id id)
{
    pleat_allocator_t *allocator = nullptr;
    pleat_snapshot_t *snapshot = nullptr;
    if (find<decltype(pleat_device_table_get)>("pleat_device_table_get")(0, &allocator) !=
            PLEAT_OK ||
        find<decltype(pleat_snapshot_take)>("pleat_snapshot_take")(allocator, &snapshot) !=
            PLEAT_OK) {
        return false;
    }
    const bool is_there = snapshot->segment_count == 1 &&
                          snapshot->segments[0].pool.first == id.first &&
                          snapshot->segments[0].pool.second == id.second;
    find<decltype(pleat_snapshot_destroy)>("pleat_snapshot_destroy")(snapshot);
    return is_there;
}

static int expect(bool holds, const char *what)
{
    if (!holds) {
        std::printf("does not hold: %s\n", what);
    }
    return holds ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc != 3 || (library = dlopen(argv[1], RTLD_NOW)) == nullptr) {
        std::printf("hooks PLUGIN DRIVER: %s\n", argc == 3 ? dlerror() : "two arguments");
        return 1;
    }
    const auto configure = find<int(const char *, const char *)>("pleat_torch_configure");
    const auto alloc = find<void *(size_t, int, void *)>("pleat_torch_malloc");
    const auto free = find<void(void *, size_t, int, void *)>("pleat_torch_free");
    const auto reset = find<void()>("pleat_torch_reset");
    const auto begin =
        find<void(int, pool_id, std::function<bool(void *)>)>("pleat_torch_begin_allocate_to_pool");
    const auto end = find<void(int, pool_id)>("pleat_torch_end_allocate_to_pool");
    const auto release = find<void(int, pool_id)>("pleat_torch_release_pool");

    const pool_id id{0x123456789abcdef0, 0x0fedcba987654321};
    size_t big[16] = {}; /* a function object that does not fit in a std::function */
    int failures = expect(configure("", argv[2]) == 0, "configuration");
    begin(0, id, [big](void *) { return big[0] == 0; });
    void *const ptr = alloc(3 << 20, 0, nullptr);
    end(0, id);
    failures += expect(ptr != nullptr, "memory");
    failures += expect(segment_is_in(id), "the pool has both numbers");
    free(ptr, 3 << 20, 0, nullptr);
    reset();
    failures += expect(segment_is_in(id), "a pool in use keeps its memory");
    release(0, id);
    reset();
    failures += expect(!segment_is_in(id), "a released one does not");
    if (failures == 0) {
        std::printf("pool functions take what C++ hands them\n");
    }
    return failures == 0 ? 0 : 1;
}
