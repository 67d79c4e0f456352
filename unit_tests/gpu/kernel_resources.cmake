#Fails unless every kernel of paths cluster and split in a compiled library keeps all it has in registers.
#cmake - DCUOBJDUMP = < program> - DLIBRARY = < archive> - DCLUSTER = < kernel families expected> - DSPLIT = \
                                                                          < the same> - P kernel_resources.cmake
#A family is one loss and one type of logits.The compiler's own check (--warn-on-spills) says nothing of local arrays, and nothing of a
#library that was built without it.
execute_process(COMMAND ${CUOBJDUMP} - res -
                usage ${LIBRARY} OUTPUT_VARIABLE usage ERROR_VARIABLE errors RESULT_VARIABLE
                    result) if (NOT result EQUAL 0) message(FATAL_ERROR
                                                            "${CUOBJDUMP} -res-usage ${LIBRARY}: ${result}\n${errors}")
    endif() string(REGEX MATCHALL "Function [^\n]*(row_in_cluster|split_rows)[^\n]*\n[^\n]*" kernels
                                  "${usage}") set(wrong "") set(cluster "") set(split "")
        foreach (kernel IN LISTS kernels) if (NOT kernel MATCHES
                                              "Function ([^ :]+):[^\n]*\n.*STACK:([0-9]+).*LOCAL:([0-9]+)")
            message(FATAL_ERROR "cuobjdump writes otherwise than this script reads: ${kernel}") endif() set(name ${
                CMAKE_MATCH_1}) if (NOT CMAKE_MATCH_2 EQUAL 0 OR NOT CMAKE_MATCH_3 EQUAL 0)
                string(APPEND wrong "\n  STACK:${CMAKE_MATCH_2} LOCAL:${CMAKE_MATCH_3} ${name}") endif() if (
                    name MATCHES "row_in_clusterI(.*)LNS_4PassE") list(APPEND cluster "${CMAKE_MATCH_1}")
                    elseif(name MATCHES "split_rowsI(.*)EEvT_") list(APPEND split "${CMAKE_MATCH_1}") else() message(
                        FATAL_ERROR
                        "no known kernel: ${name}") endif() endforeach() list(LENGTH kernels
                                                                                  count) foreach (path cluster split)
                        list(REMOVE_DUPLICATES ${path}) list(LENGTH ${path} ${path} _count) endforeach() message(
                            STATUS
                            "${count} kernels: ${cluster_count} families of cluster, ${split_count} "
                            "of split") if (cluster_count LESS CLUSTER OR split_count LESS SPLIT)
                            message(
                                FATAL_ERROR
                                "expected at least ${CLUSTER} families of cluster and ${SPLIT} of split in ${LIBRARY}")
                                endif() if (wrong)
                                    message(FATAL_ERROR
                                            "kernels that use memory for what belongs in registers:${wrong}") endif()
